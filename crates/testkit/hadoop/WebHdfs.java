import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A namenode and a datanode on loopback, for tests: prints the namenode's HTTP port, ends with its standard input. */
public class WebHdfs {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.setLong("dfs.namenode.fs-limits.min-block-size", 1024);
        conf.setLong("dfs.blocksize", 1 << 20);
        conf.setBoolean("dfs.permissions.enabled", false);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new File(args[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("port " + cluster.getNameNode().getHttpAddress().getPort());
        System.out.flush();
        while (System.in.read() >= 0) { }
        cluster.shutdown();
        System.exit(0);
    }
}
